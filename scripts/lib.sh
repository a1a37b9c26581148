# SPDX-License-Identifier: BSD-3-Clause
# Parts that scripts/quickstart and scripts/test share: what to install and how, and how a step is announced.
# Source it from the repository's root. Runs on Debian 12 and 13 and Ubuntu 24.04, as root or with sudo.
#
#   CPPRUN_TORCH_VERSION      the release of PyTorch to install (2.13.0)
#   CPPRUN_TORCH_INDEX        a package index to take PyTorch from, beside pip's own ones. The one of PyTorch's CPU
#                             builds, which its installation page names, spares gigabytes of CUDA libraries
#   CPPRUN_DOWNLOAD_LIMIT_MB  refuse a download of Python packages that is larger (4000)

torch_version=${CPPRUN_TORCH_VERSION:-2.13.0}
download_limit_mb=${CPPRUN_DOWNLOAD_LIMIT_MB:-4000}
python=.venv/bin/python
missing=()   # optional parts that could not be had, for the closing words

step() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$*"; }
warn() { printf '   note: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 127
    fi
}

# Prints those of the named Debian packages that are not installed.
packages_not_installed() {
    local package
    for package in "$@"; do
        case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
            installed) ;;
            *) printf '%s\n' "$package" ;;
        esac
    done
}

# Installs packages by apt; those that are there cost nothing, not even a look at the network.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
apt_lists_are_fresh=false
install_packages() {
    local absent
    mapfile -t absent < <(packages_not_installed "$@")
    [ ${#absent[@]} = 0 ] && return 0
    say "installing by apt: ${absent[*]}"
    if ! $apt_lists_are_fresh; then
        # A source of somebody else's that is down need not keep us from what the distribution has.
        apt_get update >"$log_dir/apt.log" 2>&1 || true
        apt_lists_are_fresh=true
    fi
    apt_get install -y --no-install-recommends "${absent[@]}" >"$log_dir/apt.log" 2>&1
}

# A part without which nothing works.
must_have() {
    install_packages "$@" && return 0
    tail -n 5 "$log_dir/apt.log" >&2 2>/dev/null || true
    die "could not install $(packages_not_installed "$@" | tr '\n' ' ')" \
        "run as root or with sudo, with a package mirror in reach; apt's words are in $log_dir/apt.log"
}

# A part whose absence is only said: must be followed by what is then left out.
nice_to_have() {
    local without=$1
    shift
    install_packages "$@" && return 0
    warn "could not install $*: $without"
    missing+=("$* ($without)")
    return 1
}

distribution() { (. /etc/os-release && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}"); }

# Boost >= 1.81 is needed for Process v2; Debian 12's default is 1.74, with 1.81 beside it.
boost_packages() {
    case $(distribution) in
        'debian 12') echo libboost1.81-dev libboost-filesystem1.81-dev ;;
        *) echo libboost-dev libboost-filesystem-dev ;;
    esac
}

python_is_usable() {
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

require_apt() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && return 0
    die "$(distribution): this script installs by apt-get, which is not here" \
        "docs/contributing.md lists what to install by hand; then build with cmake --preset release"
}

install_build_tools() {
    require_apt
    # shellcheck disable=SC2046  # the list of names is meant to be split
    must_have g++ cmake ninja-build ca-certificates $(boost_packages) libcli11-dev libspdlog-dev libfmt-dev \
        nlohmann-json3-dev
    nice_to_have 'a second build is slower' ccache || true
    say "$(c++ --version | head -n 1)"
    say "$(cmake --version | head -n 1)"
}

install_python() {
    python_is_usable || must_have python3 python3-venv
    python_is_usable || die "python3 is $(python3 --version 2>&1): 3.11 or newer, with venv, is needed"
}

# Lets one clone use what another has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true

configure() {   # preset, then more arguments of cmake
    local preset=$1 launcher=()
    shift
    command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    cmake --preset "$preset" "${launcher[@]}" "$@" >"$log_dir/configure-$preset.log" 2>&1 ||
        { tail -n 30 "$log_dir/configure-$preset.log" >&2; return 1; }
}

build() {   # preset, then targets
    local preset=$1 targets=()
    shift
    [ $# -gt 0 ] && targets=(--target "$@")
    cmake --build "build/$preset" "${targets[@]}" >"$log_dir/build-$preset.log" 2>&1 ||
        { grep -E -A8 'error|FAILED' "$log_dir/build-$preset.log" | head -n 60 >&2; return 1; }
}

build_release() {
    step 'The release build'
    configure release -DCPPRUN_TESTS=OFF -DCPPRUN_BENCH=OFF || die 'cmake could not configure the release build'
    build release cpprun || die 'the release build failed' "all of it is in $log_dir/build-release.log"
    say "build/release/src/cpprun, $(du -k --apparent-size build/release/src/cpprun | cut -f1) kB"
}

make_venv() {
    [ -x $python ] && return 0
    say "$(python3 --version), virtual environment .venv"
    python3 -m venv .venv || die 'python3 -m venv .venv failed'
}

# What the tests and examples import, beside torch.
python_requirements() {
    local file
    for file in examples/requirements.txt tests/requirements.txt; do
        [ -f $file ] && printf -- '-r\n%s\n' $file
    done
}

python_packages_are_there() {
    $python scripts/python_packages.py satisfied "torch==$torch_version" \
        examples/requirements.txt tests/requirements.txt
}

# Installs torch and the rest into .venv, after saying how much that is to download. Returns 1, with the reason
# said, where it cannot.
install_python_packages() {
    make_venv
    python_packages_are_there && { say "torch $torch_version and the rest are in .venv already"; return 0; }
    local index wanted
    index=${CPPRUN_TORCH_INDEX:-}
    mapfile -t wanted < <(printf 'torch==%s\n' "$torch_version"; python_requirements)
    [ -n "$index" ] && { say "PyTorch's packages also from $index"; wanted+=(--extra-index-url "$index"); }
    say 'asking the package index what is to be downloaded'
    if ! timeout 600 $python -m pip install --dry-run --quiet --use-feature=fast-deps \
        --report "$log_dir/pip-report.json" "${wanted[@]}" >"$log_dir/pip.log" 2>&1; then
        warn "pip cannot get torch $torch_version: $(grep -m 1 -i '^error' "$log_dir/pip.log" || tail -n 1 "$log_dir/pip.log")"
        return 1
    fi
    $python scripts/python_packages.py size "$log_dir/pip-report.json" "$download_limit_mb" || return 1
    timeout 3600 $python -m pip install --quiet "${wanted[@]}" >"$log_dir/pip.log" 2>&1 && return 0
    warn "pip failed: $(tail -n 1 "$log_dir/pip.log")"
    return 1
}

log_dir=build/logs
mkdir -p "$log_dir"
