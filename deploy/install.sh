#!/usr/bin/env bash
# Installs a bundle (deploy/bundle.sh) as a service of this machine: programs in /opt/preheat, settings in /etc/preheat,
# the systemd unit, man pages, completions. Settings that are there already stay. Nothing is started.
#   deploy/install.sh [--root FOLDER] [BUNDLE]      BUNDLE: default build/bundle; FOLDER: instead of / (an image, a test)
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

root=
if [ "${1:-}" = --root ]; then
  root=${2:?--root needs a folder}
  shift 2
fi
bundle=${1:-$PREHEAT_ROOT/build/bundle}
[ -x "$bundle/bin/preheatd" ] || die "there is no bundle in $bundle" "deploy/build.sh && deploy/bundle.sh"
deploy="$PREHEAT_ROOT/deploy"

# The folder of torch's libraries, which workers verify with; empty where there is no torch.
torch_libraries() {
  local python
  for python in "$PREHEAT_VENV/bin/python" python3; do
    "$python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin) + "/lib")' 2>/dev/null && return
  done
  true
}

# Files are replaced, not written over: a server that runs keeps the ones it has opened.
install -d "$root/opt/preheat" "$root/etc/preheat"
for folder in bin lib python; do
  rm -rf "$root/opt/preheat/$folder.new"
  cp -r "$bundle/$folder" "$root/opt/preheat/$folder.new"
  rm -rf "$root/opt/preheat/$folder.old"
  [ ! -e "$root/opt/preheat/$folder" ] || mv "$root/opt/preheat/$folder" "$root/opt/preheat/$folder.old"
  mv "$root/opt/preheat/$folder.new" "$root/opt/preheat/$folder"
done
[ -e "$root/etc/preheat/preheatd.yaml" ] || install -m 644 "$deploy/preheatd.yaml" "$root/etc/preheat/"
torch=$(torch_libraries)
if [ ! -e "$root/etc/preheat/environment" ]; then
  printf '# Where preheatd and its workers find their libraries; torch verifies artifacts.\nLD_LIBRARY_PATH=/opt/preheat/lib%s\n' \
    "${torch:+:$torch}" >"$root/etc/preheat/environment"
fi
install -D -m 644 "$deploy/systemd/preheatd.service" "$root/etc/systemd/system/preheatd.service"
install -D -m 644 "$deploy/manual/compilectl.1" "$root/usr/local/share/man/man1/compilectl.1"
install -D -m 644 "$deploy/manual/preheatd.8" "$root/usr/local/share/man/man8/preheatd.8"
install -D -m 644 "$deploy/manual/compilectl.bash" "$root/usr/share/bash-completion/completions/compilectl"
install -D -m 644 "$deploy/manual/_compilectl" "$root/usr/local/share/zsh/site-functions/_compilectl"
# Libraries lie beside the program, so the command on the PATH is a line of shell.
install -d "$root/usr/local/bin"
printf '#!/bin/sh\nLD_LIBRARY_PATH=/opt/preheat/lib%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec /opt/preheat/bin/compilectl "$@"\n' \
  "${torch:+:$torch}" >"$root/usr/local/bin/compilectl"
chmod 755 "$root/usr/local/bin/compilectl"

say "installed in $root/opt/preheat; settings: $root/etc/preheat/preheatd.yaml"
[ -n "$torch" ] || say "no torch found: artifacts will not be verified (add its lib folder in $root/etc/preheat/environment)"
[ -n "$root" ] || say "start it: systemctl daemon-reload && systemctl enable --now preheatd"
