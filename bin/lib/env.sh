# shellcheck shell=bash
# Sourced by the scripts in bin/ and by .ci/run: finds the repository, a home, cargo and the private
# tools, and exports what cargo, the tests and the product need to know. Installs nothing.
# Failures of the set-up end the sourcing script with exit code 2.

tw_say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
tw_die() { tw_say "$@"; exit 2; }

tw_repo="$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd -P)"
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
export TURNWRIGHT_TOOLS_DIR="$tw_repo/.tools/venv"
# Scripts change folder before they run cargo, so a relative folder is settled now.
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$tw_repo/target}"
[[ $CARGO_TARGET_DIR == /* ]] || CARGO_TARGET_DIR="$PWD/$CARGO_TARGET_DIR"
export CARGO_TARGET_DIR
# Queries are checked against the committed cache, not against a database.
export SQLX_OFFLINE="${SQLX_OFFLINE:-true}"

# Gives a process without a usable home one below .tools; cargo, rustup and pip want one.
tw_home_is_ours=no
tw_settle_home() {
  if [[ -n ${HOME:-} && -d $HOME && -w $HOME ]]; then return; fi
  export HOME="$tw_repo/.tools/home"
  mkdir -p -- "$HOME" || tw_die "HOME is not writable and $HOME cannot be made"
  tw_home_is_ours=yes
}

# cargo_runs CARGO [NAME=VALUE…]: the toolchain is chosen by folder, so ask in the repository.
tw_cargo_runs() {
  local cargo=$1
  shift
  (cd -- "$tw_repo" && env "$@" "$cargo" --version) >/dev/null 2>&1
}

# Takes CARGO if it runs. A cargo that is a rustup proxy needs to know where rustup keeps its
# toolchains, which it guesses from HOME; with another HOME they lie beside cargo's own folder.
tw_take_cargo() {
  local cargo=$1 folder near rustup=${RUSTUP_HOME:-}
  folder="$(dirname -- "$cargo")"
  near="$(dirname -- "$folder")"
  if [[ $tw_home_is_ours == no ]] && tw_cargo_runs "$cargo"; then
    :
  else
    local guess
    for guess in "$(dirname -- "$near")/.rustup" "$(dirname -- "$near")/rustup"; do
      if [[ -z $rustup && -d $guess/toolchains ]]; then rustup=$guess; fi
    done
    tw_cargo_runs "$cargo" ${rustup:+"RUSTUP_HOME=$rustup"} || return 1
    if [[ -n $rustup ]]; then export RUSTUP_HOME="$rustup"; fi
    # The crates that are downloaded already; only where we may add to them.
    if [[ -z ${CARGO_HOME:-} && ${near##*/} =~ ^\.?cargo$ && -w $near ]]; then
      export CARGO_HOME="$near"
    fi
  fi
  if [[ $(command -v cargo || true) != "$cargo" ]]; then export PATH="$folder:$PATH"; fi
}

tw_find_cargo() {
  local candidate user_home
  user_home="$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6 || true)"
  for candidate in "$(command -v cargo || true)" "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" \
    "$user_home/.cargo/bin/cargo" /root/.cargo/bin/cargo /usr/local/cargo/bin/cargo; do
    if [[ -n $candidate && -x $candidate ]] && tw_take_cargo "$candidate"; then return; fi
  done
  tw_die "no working cargo found; install Rust with rustup, or type: export PATH=\"\$PATH:/folder/of/cargo\""
}

# at_least WANTED HAVE, compared as versions.
tw_at_least() {
  [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]
}

# Call before cargo. Cheap, and asks no network.
tw_use_cargo() {
  tw_settle_home
  tw_find_cargo
  local want have
  want="$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$tw_repo/Cargo.toml" | head -n 1)"
  have="$(cd -- "$tw_repo" && cargo --version | cut -d' ' -f2)"
  tw_at_least "${want:-0}" "$have" || tw_die "cargo $have is too old; type: rustup update stable"
}

# tw_cargo ARGS…: cargo in the repository, leaving our standard input to the program we start.
tw_cargo() {
  (cd -- "$tw_repo" && exec cargo "$@" </dev/null)
}

# tw_set_up: everything that a script needs before it builds.
tw_set_up() {
  "$tw_repo/bin/setup" </dev/null || exit 2
  tw_use_cargo
}
