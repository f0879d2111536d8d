# Sourced by the scripts of launch/: the root of the tree, messages, and packages. SPDX-License-Identifier: Apache-2.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Seconds since 1970: of SOURCE_DATE_EPOCH, of the last commit, or of the list of changes where there are no commits. The
# time that files of archives have, so that the same tree makes the same bytes.
time_of_tree() {
  if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    printf '%s\n' "$SOURCE_DATE_EPOCH"
  else
    git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md"
  fi
}

# The words of the arguments that are no installed package.
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
    fail "\"$*\" needs root: run it as root, or install sudo, then start again"
  fi
}

# Installs with apt what is missing of the arguments.
install_packages() {
  local missing absent package
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  as_root apt-get update -qq || fail "apt-get update failed: is this machine online, and are its package sources right?"
  absent=()
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 || absent+=("$package")
  done
  [ ${#absent[@]} -eq 0 ] || fail "this system's package sources lack: ${absent[*]}; Debian 12 has them all"
  as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get install ${missing[*]} failed"
}
