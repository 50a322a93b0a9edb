#include "optimus/launch/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "optimus/base/error.hpp"
#include "optimus/base/file.hpp"

namespace optimus::launch {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr Index kMostHosts = 1 << 20;  // a typing mistake such as [1-9999999999] must not fill the memory

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    const auto begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return words;
    const auto end = std::min(line.find_first_of(kBlank, begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::optional<Index> whole_number(std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() && value >= 0 ? std::optional(value) : std::nullopt;
}

void add(std::vector<Host>& hosts, const std::string& name, Index slots) {
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
  if (known == hosts.end()) hosts.push_back({name, slots});
  else known->slots += slots;
}

/// Calls `use(words, line number)` for each line that is not empty without its comment.
template <class Use> void for_each_line(std::string_view text, Use use) {
  Index number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, std::min(text.find('#'), end)));
    ++number;
    if (!words.empty()) use(words, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// "name:4" is Hydra's way to say slots; an IPv6 address has more than one colon.
Host split_slots(const std::string& word) {
  const auto colon = word.find(':');
  if (colon == std::string::npos || word.find(':', colon + 1) != std::string::npos) return {word, 0};
  const auto slots = whole_number(std::string_view(word).substr(colon + 1));
  return slots ? Host{word.substr(0, colon), *slots} : Host{word, 0};
}

/// One number range of a bracket: "7" or "001-004", with the width of its first number.
void expand_range(std::string_view range, const std::string& list, std::vector<std::string>& out) {
  const auto dash = range.find('-');
  const std::string_view first = range.substr(0, dash), last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto begin = whole_number(first), end = whole_number(last);
  if (!begin || !end || *begin > *end || *end - *begin >= kMostHosts)
    throw ConfigError(fmt::format("[launch] \"{}\" in the host list \"{}\" is no range of numbers; write it like 001-004", range, list));
  for (Index number = *begin; number <= *end; ++number) out.push_back(fmt::format("{:0{}}", number, first.size()));
}

std::vector<std::string> expand_bracket(std::string_view inside, const std::string& list) {
  std::vector<std::string> numbers;
  while (true) {
    const auto comma = inside.find(',');
    expand_range(inside.substr(0, comma), list, numbers);
    if (comma == std::string_view::npos) return numbers;
    inside.remove_prefix(comma + 1);
  }
}

/// One name with any number of brackets.
std::vector<std::string> expand_name(std::string_view name, const std::string& list) {
  std::vector<std::string> made = {""};
  while (!name.empty()) {
    const auto open = name.find('['), text_end = std::min(open, name.size());
    for (std::string& host : made) host += name.substr(0, text_end);
    if (open == std::string_view::npos) break;
    const auto close = name.find(']', open);
    const auto numbers = expand_bracket(name.substr(open + 1, close - open - 1), list);
    if (static_cast<Index>(made.size() * numbers.size()) > kMostHosts)
      throw ConfigError(fmt::format("[launch] the host list \"{}\" is longer than {} names", list, kMostHosts));
    std::vector<std::string> longer;
    for (const std::string& host : made)
      for (const std::string& number : numbers) longer.push_back(host + number);
    made = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return made;
}

std::vector<Host> slurm_hosts(const std::string& list, const HostQuestions& ask) {
  std::vector<Host> hosts;
  if (const auto answer = ask.scontrol(list)) {
    for_each_line(*answer, [&](const std::vector<std::string>& words, Index) { add(hosts, words.front(), 0); });
  } else {
    for (const std::string& name : expand_host_list(list)) add(hosts, name, 0);
  }
  if (hosts.empty()) throw ConfigError(fmt::format("[launch] SLURM_JOB_NODELIST \"{}\" names no host; give --hostfile", list));
  return hosts;
}

}  // namespace

std::vector<Host> parse_hostfile(std::string_view text, const std::string& file) {
  std::vector<Host> hosts;
  for_each_line(text, [&](const std::vector<std::string>& words, Index line) {
    Host host = split_slots(words.front());
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!words[i].starts_with("slots=")) continue;
      const auto slots = whole_number(std::string_view(words[i]).substr(6));
      if (!slots || *slots == 0) throw ConfigError(fmt::format("[launch] {}:{}: \"{}\" is no number of slots; write slots=4", file, line, words[i]));
      host.slots = *slots;
    }
    add(hosts, host.name, host.slots);
  });
  if (hosts.empty()) throw ConfigError(fmt::format("[launch] {} names no host; write one a line, like \"node1 slots=4\"", file));
  return hosts;
}

std::vector<Host> parse_nodefile(std::string_view text, const std::string& file) {
  std::vector<Host> hosts;
  for_each_line(text, [&](const std::vector<std::string>& words, Index) { add(hosts, words.front(), 1); });
  if (hosts.empty()) throw ConfigError(fmt::format("[launch] {} names no host; give --hostfile", file));
  // PBS lists a host once for each of its chunk's mpiprocs; once each says nothing about ranks.
  if (std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots == 1; }))
    for (Host& host : hosts) host.slots = 0;
  return hosts;
}

std::vector<std::string> expand_host_list(std::string_view list) {
  const std::string whole(list);
  std::vector<std::string> hosts;
  std::size_t begin = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if ((c == '[' && is_inside) || (c == ']' && !is_inside) || (i == list.size() && is_inside))
      throw ConfigError(fmt::format("[launch] the brackets of the host list \"{}\" do not match", whole));
    if (c == '[') is_inside = true;
    if (c == ']') is_inside = false;
    if (c != ',' || is_inside) continue;
    if (i > begin)
      for (std::string& host : expand_name(list.substr(begin, i - begin), whole)) hosts.push_back(std::move(host));
    begin = i + 1;
  }
  return hosts;
}

std::vector<Host> find_hosts(const std::string& hostfile, const HostQuestions& ask, std::string& source) {
  const auto text_of = [](const std::string& path) {
    try {
      return read_file(path);
    } catch (const FileError& error) {
      throw ConfigError(fmt::format("[launch] the list of hosts: {}", error.what()));
    }
  };
  if (!hostfile.empty()) return source = hostfile, parse_hostfile(text_of(hostfile), hostfile);
  if (const auto file = ask.environment("PBS_NODEFILE")) return source = "PBS_NODEFILE", parse_nodefile(text_of(*file), *file);
  if (const auto list = ask.environment("SLURM_JOB_NODELIST")) return source = "SLURM_JOB_NODELIST", slurm_hosts(*list, ask);
  source = "this machine";
  return {{"localhost", 0}};
}

}  // namespace optimus::launch
