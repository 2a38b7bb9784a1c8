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
  found=(${(f)"$(pgrail complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
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
	for _, found := range candidates(a.model.Node, words, last) {
		if found != "" && strings.HasPrefix(found, last) {
			fmt.Fprintln(a.out, found)
		}
	}
	return nil
}

// reach follows the words that name commands, and counts the arguments after them.
func reach(node *kong.Node, words []string) (reached *kong.Node, args int) {
	for i := 0; i < len(words); i++ {
		child := childOf(node, words[i])
		switch {
		case strings.HasPrefix(words[i], "-"):
			if takesNext(node, words[i]) {
				i++
			}
		case child != nil && args == 0:
			node = child
		default:
			args++
		}
	}
	return node, args
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// takesNext is true for a flag whose value is the next word.
func takesNext(node *kong.Node, word string) bool {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if word == "--"+flag.Name {
				return !flag.IsBool()
			}
		}
	}
	return false
}

func candidates(root *kong.Node, words []string, last string) (found []string) {
	node, args := reach(root, words)
	if strings.HasPrefix(last, "-") {
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				found = append(found, "--"+flag.Name)
			}
		}
		return found
	}
	for _, child := range node.Children {
		if !child.Hidden && args == 0 {
			found = append(found, child.Name)
		}
	}
	if args < len(node.Positional) {
		found = append(found, node.Positional[args].EnumSlice()...)
	}
	return found
}
