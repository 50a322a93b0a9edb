#include "tests/unit/data/data_testing.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <sstream>

#include "optimus/base/file.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/data/byte_alphabet.hpp"
#include "optimus/data/npy.hpp"

namespace optimus::testing_data {

TemporaryFolder::TemporaryFolder() {
  // In memory where there is such a place: hundreds of small files are synced here.
  const fs::path memory = "/dev/shm";
  std::string name = ((fs::is_directory(memory) && ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path()) / "optimus-data-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  const fs::path path = path_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

std::string npy(const std::string& dtype, const std::vector<Index>& shape, const std::string& data) { return make_npy_header(dtype, shape) + data; }

nlohmann::json small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  const ByteAlphabet alphabet;
  nlohmann::json vocab, list = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[alphabet.character(static_cast<std::uint8_t>(byte))] = byte;
  for (const auto& [left, right] : merges) {
    vocab.emplace(left + right, vocab.size());
    list.push_back({left, right});
  }
  const std::size_t end = vocab.size();
  return {{"added_tokens", {{{"id", end}, {"content", "<|endoftext|>"}, {"normalized", false}, {"special", true}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

std::string fixture(const std::string& name) { return std::string(OPTIMUS_SOURCE_DIR) + "/tests/data/tokenizers/" + name; }

Ids encode(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

DatasetInfo run_prepare(PrepareOptions options) {
  if (options.num_workers == 1) options.num_workers = 2;
  const auto comm = make_self_communicator();
  return prepare(options, *comm).info;
}

std::vector<Ids> samples_of(const fs::path& folder) {
  const Dataset dataset(folder);
  std::vector<Ids> samples(static_cast<std::size_t>(dataset.info().num_samples), Ids(static_cast<std::size_t>(dataset.info().sequence_length + 1)));
  for (std::size_t i = 0; i < samples.size(); ++i) dataset.read_sample(static_cast<Index>(i), samples[i]);
  return samples;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

}  // namespace optimus::testing_data
