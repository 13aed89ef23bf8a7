/** What shells read to complete `kubectl-maintenance`. Each asks the program itself, by `__complete`. */

const bash = String.raw`# source <(kubectl-maintenance completion bash)
_kubectl_maintenance() {
  local value directive=4
  COMPREPLY=()
  while IFS=$'\t' read -r value _; do
    case $value in
      :*) directive=${'$'}{value#:} ;;
      *) COMPREPLY+=("$value") ;;
    esac
  done < <(kubectl-maintenance __complete -- "${'$'}{COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ $directive == 0 ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "${'$'}{COMP_WORDS[COMP_CWORD]}")
  fi
}
complete -F _kubectl_maintenance kubectl-maintenance`;

const zsh = String.raw`#compdef kubectl-maintenance
# source <(kubectl-maintenance completion zsh)
_kubectl_maintenance() {
  local line directive=4
  local -a values
  while IFS= read -r line; do
    case $line in
      :*) directive=${'$'}{line#:} ;;
      *) values+=("${'$'}{${'$'}{line//:/\\:}/$'\t'/:}") ;;
    esac
  done < <(kubectl-maintenance __complete -- "${'$'}{(@)words[2,CURRENT]}" 2>/dev/null)
  if [[ $directive == 0 ]]; then
    _files
  else
    _describe 'maintenance' values
  fi
}
compdef _kubectl_maintenance kubectl-maintenance`;

const fish = String.raw`# kubectl-maintenance completion fish | source
function __kubectl_maintenance
  set -l words (commandline -opc)
  kubectl-maintenance __complete -- $words[2..-1] (commandline -ct) 2>/dev/null | string match -v -r '^:'
end
complete -c kubectl-maintenance -f -a '(__kubectl_maintenance)'
complete -c kubectl-maintenance -l kubeconfig -l plan -l filename -s f -r -F`;

export const scripts = { bash, zsh, fish };
