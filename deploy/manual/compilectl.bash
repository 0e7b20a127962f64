# Completion of compilectl for bash. Written by make_manual.py from --help.
# Install as /usr/share/bash-completion/completions/compilectl, or source it.

_compilectl_keys() {  # of the server that the line names; none if it does not answer at once
  compilectl --quiet --timeout 2 "${_compilectl_server[@]}" ls 2>/dev/null | awk '$1 ~ /^[0-9a-f]{12}$/ { print $1 }'
}

_compilectl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command= words= takes= i
  local globals="-h --help --server --json -q --quiet --timeout --tls-ca --tls-cert --tls-key --token-file --version"
  _compilectl_server=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --server) _compilectl_server=(--server "${COMP_WORDS[i+1]}"); i=$((i + 1)) ;;
      --config|--data-dir|--dim|--exclude|--generation|--html|--http-port|--input|--interval|--job|--mode|--older-than|--patience|--port|--preheatd|--program|--repeat|--seed|--server|--shapes|--target|--timeout|--tls-ca|--tls-cert|--tls-key|--token-file|--workers) i=$((i + 1)) ;;
      -*) ;;
      warm|compile|run|verify|explain|why-miss|ls|show|pin|unpin|rm|gc|export|import|workers|top|stats|server) [ "$command" != "" ] || command="${COMP_WORDS[i]}" ;;
      start|stop|status) [ "$command" != "server" ] || command="server ${COMP_WORDS[i]}" ;;
    esac
  done
  case $previous in
    --older-than) :; return ;;
    --config|--html|--preheatd|--shapes|--tls-ca|--tls-cert|--tls-key|--token-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --data-dir) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --server) :; return ;;
    --job) :; return ;;
    --mode) COMPREPLY=($(compgen -W "fast tuned background" -- "$current")); return ;;
    --generation|--repeat|--seed|--workers) :; return ;;
    --program) :; return ;;
    --dim) :; return ;;
    --input) :; return ;;
    --exclude) :; return ;;
    --http-port|--port) :; return ;;
    --interval|--patience|--timeout) :; return ;;
    --target) COMPREPLY=($(compgen -W "cpu cuda cpu:x86-64-v2 cpu:x86-64-v3 cpu:x86-64-v4 cuda:sm_80 cuda:sm_90" -- "$current")); return ;;
  esac
  case $command in
    "") words="warm compile run verify explain why-miss ls show pin unpin rm gc export import workers top stats server $globals"; takes="" ;;
    "warm") words="--shapes --mode --check $globals"; takes="" ;;
    "compile") words="--dim --input --program --target --mode --exclude --freeze $globals"; takes="model" ;;
    "run") words="--dim --input --program --target --mode --exclude --freeze --repeat --no-eager $globals"; takes="model key" ;;
    "verify") words="--dim --input --program --target --mode --exclude --freeze --seed $globals"; takes="model key" ;;
    "explain") words="--dim --input --program --target --mode --exclude --freeze --html $globals"; takes="model key" ;;
    "why-miss") words="--dim --input --program --target --mode --exclude --freeze $globals"; takes="model" ;;
    "ls") words="--all $globals"; takes="" ;;
    "show") words="--source --plan --ir $globals"; takes="key" ;;
    "pin") words="--job --generation $globals"; takes="key" ;;
    "unpin") words="--job $globals"; takes="key" ;;
    "rm") words="--older-than --target $globals"; takes="key" ;;
    "gc") words="--dry-run $globals"; takes="" ;;
    "export") words="$globals"; takes="key" ;;
    "import") words="$globals"; takes="" ;;
    "workers") words="$globals"; takes="" ;;
    "top") words="--interval $globals"; takes="" ;;
    "stats") words="$globals"; takes="" ;;
    "server") words="start stop status $globals"; takes="" ;;
    "server start") words="--data-dir --port --http-port --workers --config --preheatd --patience $globals"; takes="" ;;
    "server stop") words="--data-dir --patience $globals"; takes="" ;;
    "server status") words="--data-dir $globals"; takes="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ "${current:0:1}" != - ] || return
  case $takes in
    *key*) COMPREPLY+=($(compgen -W "$(_compilectl_keys)" -- "$current")) ;;
  esac
  case $takes in
    *model*)
      COMPREPLY+=($(compgen -d -S / -- "$current"))
      COMPREPLY+=($(for ending in pt2 preheat pt; do compgen -f -X "!*.$ending" -- "$current"; done)) ;;
  esac
}
complete -o filenames -F _compilectl compilectl
