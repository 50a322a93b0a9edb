#include "optimus/data/corpus_samples.hpp"

#include <algorithm>

#include "optimus/base/check.hpp"

namespace optimus {

CorpusSamples::CorpusSamples(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<FileTokens>& tokens,
                             const std::filesystem::path& work, TokenType type, TokenType raw_type, Index sequence_length)
    : sequence_length_(sequence_length) {
  first_sample_.push_back(0);
  for (Index p = 0; p < static_cast<Index>(parts.size()); ++p) {
    const CorpusPart& part = parts[static_cast<std::size_t>(p)];
    const InputFile& first = files[static_cast<std::size_t>(part.begin)];
    const bool is_npy = part.is_in_place && first.kind == InputKind::kNpy;
    arrays_.push_back(is_npy ? TokenArray::open_npy(first.path)
                             : TokenArray::open_raw(part.is_in_place ? first.path : part_tokens_path(work, p), part.is_in_place ? raw_type : type));
    Index begin = 0;
    for (Index file = part.begin; file < part.end; ++file) {
      const Index count = tokens[static_cast<std::size_t>(file)].num_tokens;
      const Index samples = count > 0 ? (count - 1) / sequence_length : 0;
      places_.push_back({p, begin});
      first_sample_.push_back(first_sample_.back() + samples);
      num_dropped_ += samples > 0 ? count - (samples * sequence_length + 1) : count;
      begin += count;
    }
    OPTIMUS_CHECK(begin <= arrays_.back().size(), "a part holds fewer ids than its record says");
  }
}

void CorpusSamples::read(Index index, std::span<std::int32_t> ids) const {
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), index);
  const auto file = static_cast<std::size_t>(after - first_sample_.begin() - 1);
  const Place& place = places_[file];
  arrays_[static_cast<std::size_t>(place.array)].read(place.begin + (index - first_sample_[file]) * sequence_length_, ids);
}

}  // namespace optimus
