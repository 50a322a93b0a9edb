#pragma once
// From files of text or ids to a folder of shuffled samples that training reads.

#include <filesystem>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/data/dataset.hpp"
#include "optimus/data/documents.hpp"

namespace optimus {

struct PrepareOptions {
  std::filesystem::path out;
  std::vector<std::string> inputs;  ///< files, folders, globs, in order
  std::string tokenizer = "bytes";  ///< "bytes", a tokenizer.json, or "none" for given ids
  Index sequence_length = 0;        ///< S
  std::string end_of_document;      ///< a token of the tokenizer.json, or an id with "none"; empty: the tokenizer's own
  Index vocab_size = 0;             ///< with "none"; 0: the largest id + 1
  std::uint64_t seed = 1;
  std::string text_field = "text";
  DocumentSeparator separator = DocumentSeparator::kNone;
  std::string bin_dtype;                ///< "uint16" or "uint32"; needed for .bin
  Index shard_tokens = Index{1} << 27;  ///< S a sample
  Index num_workers = 1;                ///< threads of this rank
  Index part_bytes = Index{64} << 20;   ///< input that is turned into ids as one piece of work; the result does not depend on it
};

struct PrepareResult {
  DatasetInfo info;
  bool was_finished = false;  ///< nothing was left to do
};

/// Turns the inputs into `out`: dataset.json, shards/ and a copy of the tokenizer file.
///
/// Steps: ids of each input file (documents followed by the end of document), a permutation of all floor((T - 1) / S) samples of each file,
/// shards. The bytes depend on the inputs in their order, the tokenizer, S, the seed and shard_tokens; never on workers or ranks.
/// Each step's pieces are finished one by one in `out`/work, so that an interrupted call goes on where it stopped when it is made again;
/// dataset.json comes last and `work` goes.
///
/// Memory:     a few MiB and one sample a worker, or the longest document if that is more (a plain .txt file that is one document is mapped, and so are
///             arrays), and about 200 bytes an input file. Nothing grows with the corpus. The disk holds the ids twice until the end.
/// Collective: over `comm`; all members see the same file system.
/// Ranks:      share out the parts of the corpus and the shards; all return the same result.
/// Errors:     ConfigError for options that do not fit each other, for a folder made from other inputs or options, or in use by another process;
///             DataError as tokenize_corpus, for an empty corpus, or if the tokenizer has no end of document; FileError for a full disk.
[[nodiscard]] PrepareResult prepare(const PrepareOptions& options, Communicator& comm);

}  // namespace optimus
