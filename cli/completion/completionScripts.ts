/** Completion scripts for `kubectl-maintenance`. Each calls `kubectl-maintenance __complete`. */

const bash = String.raw`# source <(kubectl-maintenance completion bash)
_kubectl_maintenance() {
  local value directive=4
  # Split at spaces only: COMP_WORDS is also split at = and :.
  local -a words
  read -r -a words <<<"${'$'}{COMP_LINE:0:COMP_POINT}"
  [[ ${'$'}{COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=('')
  local current=${'$'}{words[${'$'}{#words[@]} - 1]} prefix=''
  [[ $current == --*=* ]] && prefix=${'$'}{current%%=*}=
  COMPREPLY=()
  while IFS=$'\t' read -r value _; do
    case $value in
      :*) directive=${'$'}{value#:} ;;
      *) COMPREPLY+=("$value") ;;
    esac
  done < <(kubectl-maintenance __complete -- "${'$'}{words[@]:1}" 2>/dev/null)
  if [[ $directive == 0 ]]; then
    # Bash 3 (macOS) has neither compopt nor mapfile.
    compopt -o filenames 2>/dev/null
    while IFS= read -r value; do COMPREPLY+=("$prefix$value"); done < <(compgen -f -- "${'$'}{current#"$prefix"}")
  fi
  # Bash replaces the text after the last = or :, not the whole word.
  local breaks='' broken='' i
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=':'
  [[ $breaks == '' ]] || broken=${'$'}{current%"${'$'}{current##*[$breaks]}"}
  for i in "${'$'}{!COMPREPLY[@]}"; do COMPREPLY[i]=${'$'}{COMPREPLY[i]#"$broken"}; done
}
complete -F _kubectl_maintenance kubectl-maintenance`;

const zsh = String.raw`#compdef kubectl-maintenance
# source <(kubectl-maintenance completion zsh)
_kubectl_maintenance() {
  local line directive=4 tab=$'\t'
  local -a values
  while IFS= read -r line; do
    case $line in
      :*) directive=${'$'}{line#:} ;;
      *)
        line=${'$'}{line//:/\\:}
        values+=("${'$'}{line/$tab/:}")
        ;;
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
