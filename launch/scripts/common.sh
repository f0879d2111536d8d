# Sourced by the scripts of launch/: root of the tree, messages, packages. SPDX-License-Identifier: Apache-2.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

log() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Prints the time stamp of packed files in seconds since 1970: SOURCE_DATE_EPOCH, the last commit, or CHANGELOG.md outside a
# clone. It makes archives of the same tree identical.
time_of_tree() {
  if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    printf '%s\n' "$SOURCE_DATE_EPOCH"
  else
    git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md"
  fi
}

# Prints the arguments that are not installed packages.
missing_packages() {
  local package
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  for package in "$@"; do
    grep -qx -- "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "\"$*\" requires root; run it as root, or install sudo, and run this script again"
  fi
}

# Installs the missing packages among the arguments with apt.
install_packages() {
  local missing absent package
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  log "Installing ${missing[*]}"
  as_root apt-get update -qq || fail "apt-get update failed; check the network and the package sources"
  absent=()
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 || absent+=("$package")
  done
  [ ${#absent[@]} -eq 0 ] || fail "not in the package sources of this system: ${absent[*]}; use Debian 12, which has all packages"
  as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get install ${missing[*]} failed"
}
