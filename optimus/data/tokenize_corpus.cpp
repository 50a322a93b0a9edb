#include "optimus/data/tokenize_corpus.hpp"

#include <algorithm>
#include <optional>

#include "optimus/base/check.hpp"
#include "optimus/base/file.hpp"
#include "optimus/data/document_tokens.hpp"
#include "optimus/data/ordered_pipeline.hpp"
#include "optimus/data/progress.hpp"

namespace optimus {
namespace {

constexpr Index kArrayIds = 1 << 22;  // ids of an array that one task checks

/// A batch of documents or a range of an array; or, with `ends_part`, only the word that a part is complete.
struct CorpusTask {
  Index part = 0, file = 0;
  DocumentBatch batch;
  std::shared_ptr<const TokenArray> array;
  Index begin = 0, end = 0;
  Index input_bytes = 0;
  bool ends_part = false;
};

/// Walks over the files of the parts and cuts them into tasks.
class TaskSource {
 public:
  TaskSource(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<Index>& todo, const TokenizeOptions& options)
      : files_(files), parts_(parts), todo_(todo), options_(options) {
    if (!todo_.empty()) file_ = part().begin;
  }

  bool next(CorpusTask& task) {
    while (at_ < todo_.size()) {
      task = CorpusTask();
      task.part = todo_[at_];
      task.file = file_;
      if (file_ == part().end) {
        task.ends_part = true;
        if (++at_ < todo_.size()) file_ = part().begin;
        return true;
      }
      if (!is_open_) open();
      if (array_ ? next_range(task) : reader_->next(task.batch)) {
        note_progress(task);
        return true;
      }
      close();
    }
    return false;
  }

 private:
  [[nodiscard]] const CorpusPart& part() const { return parts_[static_cast<std::size_t>(todo_[at_])]; }
  [[nodiscard]] const InputFile& file() const { return files_[static_cast<std::size_t>(file_)]; }

  void open() {
    is_open_ = true;
    has_ranges_ = false;
    reported_ = begin_ = 0;
    if (file().kind == InputKind::kNpy) {
      array_ = std::make_shared<const TokenArray>(TokenArray::open_npy(file().path));
    } else if (file().kind == InputKind::kRaw) {
      array_ = std::make_shared<const TokenArray>(TokenArray::open_raw(file().path, options_.raw_type));
    } else {
      reader_.emplace(file(), options_.separator);
    }
  }
  void close() {
    reader_.reset();
    array_.reset();
    is_open_ = false;
    ++file_;
  }
  bool next_range(CorpusTask& task) {
    if (has_ranges_ && begin_ == array_->size()) return false;
    has_ranges_ = true;  // an empty array has one range, which counts it
    task.array = array_;
    task.begin = begin_;
    task.end = begin_ = std::min(array_->size(), begin_ + kArrayIds);
    return true;
  }
  void note_progress(CorpusTask& task) {
    const auto share = [&] { return static_cast<double>(task.end) / static_cast<double>(std::max<Index>(array_->size(), 1)); };
    const Index done = array_ ? static_cast<Index>(static_cast<double>(file().bytes) * share()) : reader_->position();
    task.input_bytes = done - reported_;
    reported_ = done;
  }

  const std::vector<InputFile>& files_;
  const std::vector<CorpusPart>& parts_;
  const std::vector<Index>& todo_;
  const TokenizeOptions& options_;
  std::size_t at_ = 0;  // in todo_
  Index file_ = 0;
  bool is_open_ = false, has_ranges_ = false;
  std::optional<DocumentReader> reader_;
  std::shared_ptr<const TokenArray> array_;
  Index begin_ = 0, reported_ = 0;
};

/// Puts the ids of a part into its file and its record beside it.
class PartWriter {
 public:
  PartWriter(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, fs::path work) : files_(files), parts_(parts), work_(std::move(work)) {}

  void add(const CorpusTask& task, const TokenChunk& chunk) {
    open(task.part);
    if (!chunk.ids.empty()) file_->write(chunk.ids);
    FileTokens& tokens = tokens_[static_cast<std::size_t>(task.file - parts_[static_cast<std::size_t>(task.part)].begin)];
    tokens.num_tokens += chunk.counts.num_tokens;
    tokens.num_documents += chunk.counts.num_documents;
    tokens.num_empty_documents += chunk.counts.num_empty_documents;
    tokens.largest_id = std::max(tokens.largest_id, chunk.counts.largest_id);
  }
  void finish(Index part) {
    open(part);
    if (file_) file_->commit();
    write_part_record(work_, part, parts_[static_cast<std::size_t>(part)], files_, tokens_);
    file_.reset();
    tokens_.clear();
  }

 private:
  void open(Index index) {
    if (!tokens_.empty()) return;
    const CorpusPart& part = parts_[static_cast<std::size_t>(index)];
    tokens_.resize(static_cast<std::size_t>(part.end - part.begin));
    if (!part.is_in_place) file_ = std::make_unique<AtomicFile>(part_tokens_path(work_, index));
  }
  const std::vector<InputFile>& files_;
  const std::vector<CorpusPart>& parts_;
  fs::path work_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<FileTokens> tokens_;  // by file of the open part; none open: empty
};

Index bytes_of(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<Index>& todo) {
  Index bytes = 0;
  for (const Index part : todo) {
    for (Index file = parts[static_cast<std::size_t>(part)].begin; file < parts[static_cast<std::size_t>(part)].end; ++file)
      bytes += files[static_cast<std::size_t>(file)].bytes;
  }
  return bytes;
}

}  // namespace

void tokenize_corpus(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<Index>& todo, const fs::path& work,
                     const TokenizeOptions& options) {
  if (todo.empty()) return;
  TaskSource source(files, parts, todo, options);
  PartWriter writer(files, parts, work);
  constexpr double kMegabyte = 1e6;
  Progress progress("[prepare] ids of", bytes_of(files, parts, todo), "MB", kMegabyte, options.is_silent);
  OrderedPipeline<CorpusTask, TokenChunk> pipeline(options.num_workers);
  pipeline.run([&](CorpusTask& task) { return source.next(task); },
               [&](CorpusTask& task, const DocumentTokens::Emit& emit) {
                 if (task.ends_part) return;
                 DocumentTokens tokens(files[static_cast<std::size_t>(task.file)], options, emit);
                 if (task.array) {
                   tokens.add_array(*task.array, task.begin, task.end, !parts[static_cast<std::size_t>(task.part)].is_in_place);
                 } else {
                   tokens.add_batch(task.batch);
                 }
                 tokens.finish();
               },
               [&](const CorpusTask& task, TokenChunk chunk) { writer.add(task, chunk); },
               [&](const CorpusTask& task) {
                 progress.add(task.input_bytes);
                 if (task.ends_part) writer.finish(task.part);
               });
}

}  // namespace optimus
