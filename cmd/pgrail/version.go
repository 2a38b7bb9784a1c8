package main

import (
	"runtime"
	"runtime/debug"

	"github.com/openlup/pgrail/catalogue"
)

type versionCmd struct{}

type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Schema   string `json:"schema"`
	Go       string `json:"go"`
}

func (versionCmd) Run(a *app) error {
	chain := catalogue.Chain()
	v := version{Version: "unknown", Schema: chain[len(chain)-1].ID, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return a.print(v, func(t *table) {
		t.row("pgrail", v.Version)
		if v.Revision != "" {
			t.row("revision", v.Revision)
		}
		t.row("schema", v.Schema)
		t.row("go", v.Go)
	})
}
