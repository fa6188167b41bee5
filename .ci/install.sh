# What the checks need besides the toolchains: nginx, curl, python's venv, chromium, cargo-fuzz; node where there is none.

install_all() {
  local packages=()
  command -v nginx >/dev/null || packages+=(nginx-light)
  command -v curl >/dev/null || packages+=(curl)
  command -v c++ >/dev/null || packages+=(g++)
  command -v python3 >/dev/null || packages+=(python3)
  python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
  command -v chromium >/dev/null || packages+=(chromium)
  command -v npm >/dev/null || packages+=(nodejs npm)
  if [ "${#packages[@]}" -gt 0 ]; then
    apt-get update -q
    # The package starts an nginx of its own on port 80: not wanted here.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qy --no-install-recommends "${packages[@]}"
  fi
  cargo fuzz --version 2>/dev/null || cargo install cargo-fuzz --locked
  cargo --version
  cargo +nightly --version
  node --version
  python3 --version
  nginx -v
}
