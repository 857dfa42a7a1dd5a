// A raw file, whose format `raw.rs` documents and reads: records with their texts, and names that are written once.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>

#include "record.h"

namespace trace {

/// It belongs to one thread.
class RawFile {
public:
  /// Makes the file in a folder. Why it cannot; empty if it can.
  std::string open(const char *folder, const Header &header) {
    for (int number = 0; file_ < 0 && number < 100; number++) {
      path_ = std::string(folder) + "/trace-" + std::to_string(header.process) + "-" + std::to_string(number) + ".cupti";
      file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (file_ < 0 && errno != EEXIST) break;
    }
    if (file_ < 0) return "cannot make " + path_ + ": " + strerror(errno);
    put(&header, sizeof header);
    return "";
  }

  void put(const Record &record) { put(&record, sizeof record); }

  /// A record and the text that follows it.
  void put(Record record, const std::string &text) {
    record.bytes = text.size();
    put(record);
    put(text.data(), text.size());
  }

  /// The id of a name, which is written before it is used.
  uint32_t name(const char *text) {
    auto [place, is_new] = names_.emplace(text, static_cast<uint32_t>(names_.size()) + 1);
    if (is_new) put(Record{STRING, 0, 0, 0, place->second}, place->first);
    return place->second;
  }

  void flush() {
    size_t done = 0;
    while (done < out_.size() && file_ >= 0) {
      const ssize_t written = ::write(file_, out_.data() + done, out_.size() - done);
      if (written > 0) {
        done += static_cast<size_t>(written);
      } else if (errno != EINTR) {
        // A full disk must not end the program; the file says itself that its end is missing.
        fprintf(stderr, "multicard: the trace ends here, as writing %s failed: %s\n", path_.c_str(), strerror(errno));
        ::close(file_);
        file_ = -1;
      }
    }
    out_.clear();
  }

private:
  static constexpr size_t OUT_BYTES = 1 << 20;

  void put(const void *bytes, size_t length) {
    out_.append(static_cast<const char *>(bytes), length);
    if (out_.size() >= OUT_BYTES) flush();
  }

  std::string path_, out_;
  int file_ = -1;
  std::unordered_map<std::string, uint32_t> names_;
};

} // namespace trace
