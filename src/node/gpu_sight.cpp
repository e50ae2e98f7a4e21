// SPDX-License-Identifier: Apache-2.0
#include "node/gpu_sight.hpp"

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace manta::inline v0::node {

std::vector<std::string> gpu_sight::entries_of(const char* visible) {
  std::vector<std::string> out;
  for (std::string_view rest = visible == nullptr ? "" : visible; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    out.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return out;
}

void gpu_sight::open(bool are_counted) {
  if (!are_counted) return;
  entries_ = entries_of(std::getenv("CUDA_VISIBLE_DEVICES"));
  is_open_ = true;
  show(prepare({}));
}

const char* gpu_sight::prepare(std::span<const int> gpus) {
  if (!is_open_) return nullptr;
  const auto [at, is_new] = all_.try_emplace(std::vector<int>(gpus.begin(), gpus.end()));
  if (!is_new) return at->second.c_str();
  try {
    std::string text = "CUDA_VISIBLE_DEVICES=";
    for (const int one : gpus) {
      if (text.back() != '=') text += ',';
      const auto i = static_cast<std::size_t>(one);
      text += i < entries_.size() ? entries_[i] : std::to_string(one);
    }
    at->second = std::move(text);
  } catch (...) {
    all_.erase(at);
    throw;
  }
  return at->second.c_str();
}

const char* gpu_sight::show(const char* prepared) noexcept {
  if (prepared == nullptr) return nullptr;
  // It takes what it is given as it is, and changes nothing there.
  if (prepared != shown_) ::putenv(const_cast<char*>(prepared));
  return std::exchange(shown_, prepared);
}

}  // namespace manta::inline v0::node
