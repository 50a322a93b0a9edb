#include "optimus/data/byte_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "optimus/base/check.hpp"

namespace optimus {
namespace {

constexpr std::size_t kBlock = 1 << 18;

/// The file as it is.
class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(std::filesystem::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw DataError(fmt::format("[data] {}: cannot be opened: {}", path_.string(), std::generic_category().message(errno)));
  }
  ~PlainStream() override { ::close(fd_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  [[nodiscard]] std::size_t read(std::span<char> out) override {
    std::size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t count = ::read(fd_, out.data() + filled, out.size() - filled);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw DataError(fmt::format("[data] cannot read {}: {}", path_.string(), std::generic_category().message(errno)));
      if (count == 0) break;
      filled += static_cast<std::size_t>(count);
    }
    position_ += static_cast<Index>(filled);
    return filled;
  }
  [[nodiscard]] Index position() const override { return position_; }
  [[nodiscard]] std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  int fd_;
  Index position_ = 0;
};

/// Compressed bytes of a file, a block at a time.
class BlockReader {
 public:
  explicit BlockReader(std::filesystem::path path) : stream_(std::move(path)), block_(kBlock) {}
  /// What is left of the block; a new block if nothing is. Empty at the end of the file.
  [[nodiscard]] std::span<char> available() {
    if (begin_ == end_) {
      end_ = stream_.read(block_);
      begin_ = 0;
    }
    return std::span(block_).subspan(begin_, end_ - begin_);
  }
  void consume(std::size_t bytes) { begin_ += bytes; }
  [[nodiscard]] Index position() const { return stream_.position() - static_cast<Index>(end_ - begin_); }
  [[noreturn]] void fail(std::string_view what) const { throw DataError(fmt::format("[data] {}: {}", stream_.name(), what)); }

 private:
  PlainStream stream_;
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;
};

/// Gzip; several members one after another are one text, as with gunzip.
class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(std::filesystem::path path) : input_(std::move(path)) {
    constexpr int kGzipOnly = 16;
    OPTIMUS_CHECK(inflateInit2(&z_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib could not start");
  }
  ~GzipStream() override { inflateEnd(&z_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  [[nodiscard]] std::size_t read(std::span<char> out) override {
    std::size_t filled = 0;
    while (filled < out.size()) {
      const std::span<char> in = input_.available();
      if (in.empty()) {
        if (in_member_) input_.fail("the gzip data end too early: the file is cut off");
        break;
      }
      if (!in_member_) inflateReset(&z_);
      in_member_ = true;
      const std::size_t room = std::min<std::size_t>(out.size() - filled, std::size_t{1} << 30);
      z_.next_in = reinterpret_cast<Bytef*>(in.data());
      z_.avail_in = static_cast<uInt>(in.size());
      z_.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
      z_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&z_, Z_NO_FLUSH);
      input_.consume(in.size() - z_.avail_in);
      filled += room - z_.avail_out;
      if (result == Z_STREAM_END) {
        in_member_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        input_.fail(fmt::format("is not gzip or damaged: {}", z_.msg != nullptr ? z_.msg : "bad data"));
      }
    }
    return filled;
  }
  [[nodiscard]] Index position() const override { return input_.position(); }

 private:
  BlockReader input_;
  z_stream z_{};
  bool in_member_ = true;  // an empty file is no gzip file
};

/// Zstandard; several frames one after another are one text.
class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(std::filesystem::path path) : input_(std::move(path)), z_(ZSTD_createDStream()) {
    OPTIMUS_CHECK(z_ != nullptr, "zstd could not start");
    constexpr int kLongestWindow = 31;  // files made with --ultra --long=31 are read too
    ZSTD_DCtx_setParameter(z_, ZSTD_d_windowLogMax, kLongestWindow);
  }
  ~ZstdStream() override { ZSTD_freeDStream(z_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  [[nodiscard]] std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer target{out.data(), out.size(), 0};
    while (target.pos < target.size) {
      const std::span<char> block = input_.available();
      // At the end of the file the decoder may still hold text: ask once more with no input.
      const std::size_t before = target.pos;
      ZSTD_inBuffer source{block.data(), block.size(), 0};
      if (block.empty() && !in_frame_) break;
      const std::size_t result = ZSTD_decompressStream(z_, &target, &source);
      if (ZSTD_isError(result) != 0) input_.fail(fmt::format("is not zstd or damaged: {}", ZSTD_getErrorName(result)));
      input_.consume(source.pos);
      in_frame_ = result != 0;
      if (block.empty() && target.pos == before) input_.fail("the zstd data end too early: the file is cut off");
    }
    return target.pos;
  }
  [[nodiscard]] Index position() const override { return input_.position(); }

 private:
  BlockReader input_;
  ZSTD_DStream* z_;
  bool in_frame_ = true;  // an empty file is no zstd file
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path, Compression compression) {
  switch (compression) {
    case Compression::kGzip: return std::make_unique<GzipStream>(path);
    case Compression::kZstd: return std::make_unique<ZstdStream>(path);
    case Compression::kNone: break;
  }
  return std::make_unique<PlainStream>(path);
}

void for_each_line(ByteStream& stream, const std::function<void(const std::string&)>& line) {
  std::string text;
  std::vector<char> block(kBlock);
  for (std::size_t count = stream.read(block); count > 0; count = stream.read(block)) {
    std::size_t begin = text.size();
    text.append(block.data(), count);
    std::size_t done = 0;
    for (std::size_t end = text.find('\n', begin); end != std::string::npos; end = text.find('\n', done)) {
      line(text.substr(done, end - done));
      done = end + 1;
    }
    text.erase(0, done);
  }
  if (!text.empty()) line(text);
}

}  // namespace optimus
