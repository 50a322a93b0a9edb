#include "optimus/data/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/folder_lock.hpp"
#include "optimus/base/log.hpp"
#include "optimus/data/corpus_samples.hpp"
#include "optimus/data/dataset_file.hpp"
#include "optimus/data/prepare_plan.hpp"
#include "optimus/data/tokenize_corpus.hpp"
#include "optimus/data/write_shards.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

/// One call of prepare on one rank.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, Communicator& comm) : options_(options), comm_(comm), work_(options.out / "work") {}

  PrepareResult run() {
    agree(comm_, [&] { plan_ = make_prepare_plan(options_); });
    if (broadcast_text(comm_, fs::exists(options_.out / kDatasetFileName) ? "finished" : "", 0) == "finished") return finished();
    agree(comm_, [&] { begin(); });
    tokenize();
    DatasetInfo info;
    agree(comm_, [&] { info = describe(); });
    shard(info);
    agree(comm_, [&] { complete(info); });
    return {std::move(info), false};
  }

 private:
  [[nodiscard]] bool is_first() const { return comm_.rank() == 0; }
  [[nodiscard]] bool is_mine(Index i) const { return i % comm_.size() == comm_.rank(); }

  PrepareResult finished() {
    PrepareResult result{.was_finished = true};
    agree(comm_, [&] {
      result.info = read_dataset_file(options_.out);
      check_same_plan(plan_, result.info.made_from, options_.out);
      if (is_first()) fs::remove_all(work_);  // left behind if the last call ended right after dataset.json
    });
    return result;
  }

  /// The first rank makes the folders, or looks whether what is there was begun with the same options.
  void begin() {
    if (!is_first()) return;
    make_folders(options_.out / "shards");
    make_folders(work_);
    lock_ = FolderLock::take(work_ / "lock");
    if (!lock_) throw ConfigError(fmt::format("[prepare] {} is being written by another process; wait for it or give another --out", options_.out.string()));
    const fs::path path = work_ / "plan.json";
    if (!fs::exists(path)) {
      write_file_atomically(path, Json(plan_.made_from).dump(1) + "\n");
      return;
    }
    const Json begun = Json::parse(read_file(path), nullptr, false);
    if (!begun.is_object()) throw DataError(fmt::format("[prepare] {} is damaged; remove {} and start again", path.string(), options_.out.string()));
    check_same_plan(plan_, begun.get<std::map<std::string, std::string>>(), options_.out);
    log_info("[prepare] {} is unfinished: going on where it stopped", options_.out.string());
    remove_torn_files(work_);
    remove_torn_files(options_.out / "shards");
  }

  /// What a killed process left half written.
  static void remove_torn_files(const fs::path& folder) {
    std::vector<fs::path> torn;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().find(".partial-") != std::string::npos) torn.push_back(entry.path());
    }
    for (const fs::path& path : torn) fs::remove(path);
  }

  void tokenize() {
    std::vector<Index> todo, mine;
    agree(comm_, [&] {
      for (Index p = 0; p < static_cast<Index>(plan_.parts.size()); ++p) {
        if (!read_part_record(work_, p, plan_.parts[static_cast<std::size_t>(p)], plan_.files, plan_.token_type)) todo.push_back(p);
      }
      for (std::size_t i = 0; i < todo.size(); ++i) {
        if (is_mine(static_cast<Index>(i))) mine.push_back(todo[i]);
      }
      if (is_first() && !todo.empty()) {
        remove_shard_records(work_);
        log_info("[prepare] {} in {}, {} to do", counted(plan_.files.size(), "input file"), counted(plan_.parts.size(), "part"), todo.size());
      }
    });
    agree(comm_, [&] {
      tokenize_corpus(plan_.files, plan_.parts, mine, work_,
                      {.tokenizer = plan_.tokenizer.get(),
                       .end_of_document = plan_.end_of_document,
                       .vocab_size = plan_.tokenizer ? plan_.tokenizer->vocab_size() : options_.vocab_size,
                       .token_type = plan_.token_type,
                       .raw_type = plan_.raw_type,
                       .text_field = options_.text_field,
                       .separator = options_.separator,
                       .num_workers = options_.num_workers,
                       .is_silent = !is_first()});
    });
  }

  /// Everything of dataset.json but the shards' checksums.
  DatasetInfo describe() {
    Index largest_id = -1;
    DatasetInfo info;
    for (Index p = 0; p < static_cast<Index>(plan_.parts.size()); ++p) {
      const auto record = read_part_record(work_, p, plan_.parts[static_cast<std::size_t>(p)], plan_.files, plan_.token_type);
      if (!record) throw DataError(fmt::format("[prepare] {} has no complete record of part {}; do all ranks see the same folder?", work_.string(), p));
      for (const FileTokens& file : *record) {
        info.num_tokens += file.num_tokens;
        info.num_documents += file.num_documents;
        info.num_empty_documents += file.num_empty_documents;
        largest_id = std::max(largest_id, file.largest_id);
        tokens_.push_back(file);
      }
    }
    if (info.num_tokens == 0) throw DataError(fmt::format("[prepare] the corpus is empty: {} without a token", counted(plan_.files.size(), "file")));
    info.vocab_size = plan_.tokenizer ? plan_.tokenizer->vocab_size() : options_.vocab_size > 0 ? options_.vocab_size : largest_id + 1;
    if (plan_.end_of_document >= info.vocab_size) {
      throw DataError(
          fmt::format("[prepare] --end-of-document {} is above the largest id {}; if that is right, give --vocab-size", plan_.end_of_document, largest_id));
    }
    samples_ = std::make_unique<CorpusSamples>(plan_.files, plan_.parts, tokens_, work_, plan_.token_type, plan_.raw_type, options_.sequence_length);
    if (samples_->size() == 0) {
      throw DataError(
          fmt::format("[prepare] no input file has the {} ids that one sample needs ({} in {}); take a smaller --sequence-length or put the "
                      "documents into one .jsonl file",
                      options_.sequence_length + 1, counted(info.num_tokens, "id"), counted(plan_.files.size(), "file")));
    }
    info.tokenizer = plan_.tokenizer ? plan_.tokenizer->name() : "none";
    info.tokenizer_checksum = plan_.tokenizer ? plan_.tokenizer->checksum() : "";
    const TokenType type = token_type_for(info.vocab_size);
    info.token_bytes = token_type_bytes(type);
    info.token_type = token_type_name(type);
    info.sequence_length = options_.sequence_length;
    info.end_of_document = plan_.end_of_document;
    info.seed = options_.seed;
    info.num_samples = samples_->size();
    info.num_dropped_tokens = samples_->num_dropped_tokens();
    info.made_from = plan_.made_from;
    return info;
  }

  void shard(DatasetInfo& info) {
    const Index per_shard = std::max<Index>(1, options_.shard_tokens / options_.sequence_length);
    const Index num_shards = ceil_div(info.num_samples, per_shard);
    agree(comm_, [&] {
      std::vector<Index> mine;
      for (Index i = 0; i < num_shards; ++i) {
        if (is_mine(i) && !read_shard_record(options_.out, work_, i)) mine.push_back(i);
      }
      write_shards(*samples_, mine, options_.out, work_,
                   {.sequence_length = options_.sequence_length,
                    .samples_per_shard = per_shard,
                    .token_type = token_type_for(info.vocab_size),
                    .seed = options_.seed,
                    .num_workers = options_.num_workers,
                    .is_silent = !is_first()});
    });
    agree(comm_, [&] {
      for (Index i = 0; i < num_shards; ++i) {
        const auto record = read_shard_record(options_.out, work_, i);
        if (!record) throw DataError(fmt::format("[prepare] {} has no record of shard {}; do all ranks see the same folder?", work_.string(), i));
        info.shards.push_back(*record);
      }
    });
  }

  void complete(const DatasetInfo& info) {
    samples_.reset();
    if (!is_first()) return;
    if (plan_.tokenizer && options_.tokenizer != "bytes") write_file_atomically(options_.out / info.tokenizer, read_file(options_.tokenizer));
    write_dataset_file(options_.out, info);
    lock_ = std::nullopt;
    fs::remove_all(work_);
  }

  const PrepareOptions& options_;
  Communicator& comm_;
  fs::path work_;
  PreparePlan plan_;
  std::optional<FolderLock> lock_;
  std::vector<FileTokens> tokens_;
  std::unique_ptr<CorpusSamples> samples_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options, Communicator& comm) { return Preparation(options, comm).run(); }

}  // namespace optimus
