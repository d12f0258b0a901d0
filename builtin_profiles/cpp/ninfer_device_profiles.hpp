// Written by `python -m generator emit --write`; do not edit. Change a source and derive the table again.
//
// The built-in device route profiles: 6 devices, 26718 bytes of JSON.
#ifndef NINFER_BUILTIN_DEVICE_PROFILES_HPP
#define NINFER_BUILTIN_DEVICE_PROFILES_HPP

#include <cstddef>
#include <string>

namespace ninfer::builtin_device_profiles {

inline constexpr std::size_t kBytes = 26718;
inline constexpr char kSha256[] = "3ad04f8cf8264a17daa9a6e637d6e98ace261cd5603b495b77c6544057c31718";
inline constexpr char kRouteCatalog[] = "ac2d7b3e311831b0";
inline constexpr char kSourceName[] = "compiled device profiles";

// Returns the document's text. It is joined once, on first use; later calls return the same string.
const std::string& json();

}  // namespace ninfer::builtin_device_profiles

#endif  // NINFER_BUILTIN_DEVICE_PROFILES_HPP
