// A driver for any compiler: every file of the given folders, then random changes of them until the time is over.
//   smoke_NAME SECONDS FOLDER...
// The input that is being tried lies in ./smoke_NAME.input when the program ends badly.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

void Try(const std::string& input, const std::string& note) {
  std::ofstream(note, std::ios::binary) << input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string Mutate(std::string input, const std::vector<std::string>& seeds, std::mt19937_64& random) {
  static constexpr char kOdd[] = {'\0', '\xff', '\x7f', '\x80', '\x01', '[', '{', '"', '-'};
  const auto below = [&](size_t n) { return n == 0 ? size_t{0} : static_cast<size_t>(random() % n); };
  for (size_t changes = 1 + below(4); changes > 0 && !input.empty(); --changes) {
    const size_t at = below(input.size());
    switch (below(7)) {
      case 0: input[at] = static_cast<char>(random()); break;
      case 1: input[at] = kOdd[below(sizeof(kOdd))]; break;
      case 2: input[at] = static_cast<char>(input[at] ^ 1 << below(8)); break;
      case 3: input.erase(at, 1 + below(16)); break;
      case 4: input.insert(at, input.substr(below(input.size()), below(64))); break;
      case 5: input.resize(at); break;
      case 6: {
        const std::string& other = seeds[below(seeds.size())];
        input.replace(at, below(64), other.substr(below(other.size()), below(64)));
        break;
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string note = fs::path(argv[0]).filename().string() + ".input";
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i) {
    if (!fs::exists(argv[i])) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds\n");
    return 2;
  }
  for (const std::string& seed : seeds) Try(seed, note);
  std::mt19937_64 random(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t tries = 0;
  for (; std::chrono::steady_clock::now() < end; ++tries) {
    Try(Mutate(seeds[random() % seeds.size()], seeds, random), note);
  }
  std::remove(note.c_str());
  std::printf("%zu seeds, %zu changes of them\n", seeds.size(), tries);
  return 0;
}
