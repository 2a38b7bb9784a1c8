package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Each script hands the words so far to the command itself, so it need not change with the commands.
var completions = map[string]string{
	"bash": `# In ~/.bashrc: source <(pgrail completion bash)
_pgrail() {
  local IFS=$'\n'
  COMPREPLY=($(pgrail complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _pgrail pgrail
`,
	"zsh": `#compdef pgrail
# In ~/.zshrc, after compinit: source <(pgrail completion zsh)
_pgrail() {
  local -a found
  found=(${(f)"$(pgrail complete -- ${(@)words[2,CURRENT]} 2>/dev/null)"})
  compadd -a found
}
compdef _pgrail pgrail
`,
	"fish": `# pgrail completion fish > ~/.config/fish/completions/pgrail.fish
complete -c pgrail -f -a '(pgrail complete -- (commandline -opc)[2..] (commandline -ct))'
`,
}

func (c completionCmd) Run(a *app) error {
	_, err := fmt.Fprint(a.out, completions[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words of the command line; the last one is completed."`
}

func (c completeCmd) Run(a *app) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	last := ""
	if len(words) > 0 {
		words, last = words[:len(words)-1], words[len(words)-1]
	}
	for _, found := range candidates(reach(a.model.Node, words), last) {
		if found != "" && strings.HasPrefix(found, last) {
			fmt.Fprintln(a.out, found)
		}
	}
	return nil
}

// reach follows the words that name commands.
func reach(node *kong.Node, words []string) *kong.Node {
	for _, word := range words {
		for _, child := range node.Children {
			if child.Name == word {
				node = child
				break
			}
		}
	}
	return node
}

func candidates(node *kong.Node, last string) (found []string) {
	if strings.HasPrefix(last, "-") {
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				found = append(found, "--"+flag.Name)
			}
		}
		return found
	}
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, child.Name)
		}
	}
	for _, arg := range node.Positional {
		found = append(found, arg.EnumSlice()...)
	}
	return found
}
