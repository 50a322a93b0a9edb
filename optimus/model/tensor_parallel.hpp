#pragma once
// Where the ranks that share every layer meet: rows gathered before the products that need them all, parts of sums added up after.
//
// q, k, v, gate, up and the head are cut by output: every rank needs all rows for them. o, down and the embedding are cut by input: each rank has a part of a sum
// over all rows. With sequence parallelism rows lie spread over the ranks in between, so they are gathered before, and summed and spread after; without it every
// rank has all of them, and sums are made on all. A rank alone does neither, and nothing here costs it anything.

#include "optimus/model/context.hpp"

namespace optimus {

/// All rows of the micro-batch: x_lD itself, or gathered into memory for operands.   Collective: over c.tp, as everything here.
[[nodiscard]] ConstView gather_rows(const ModelContext& c, ConstView x_lD);
/// The same of rows that change before weight gradients made later have read them.
[[nodiscard]] ConstView gather_changing_rows(const ModelContext& c, ConstView d_lD);

/// Where this rank's part of a sum goes that sum_rows brings to y_lD: y_lD itself, or temporaries for all rows.
[[nodiscard]] View partial_rows(const ModelContext& c, View y_lD);
/// y_lD = the sum of all ranks' partial_TD, of the rows that lie here.
void sum_rows(const ModelContext& c, View partial_TD, View y_lD);

/// The ranks of `tp` that hold the same key and value head as this one, fewer heads than ranks; nullptr where no other does.
/// Collective: over those ranks.
[[nodiscard]] std::unique_ptr<Communicator> make_kv_sharers(const TransformerOptions& options, Communicator* tp);

}  // namespace optimus
