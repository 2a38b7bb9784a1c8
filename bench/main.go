// Command bench measures the outbox rail against a peer, against the least that the
// database could do, and against its own targets. It starts a PostgreSQL server of
// its own and prints Markdown.
//
//	go run . [flags] [scenario ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/scenario"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if url := os.Getenv(scenario.WorkerURL); url != "" {
		err = scenario.RunWorker(ctx, url)
	} else {
		err = run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	smoke := flag.Bool("smoke", false, "run every line once, on sizes too small to judge")
	quick := flag.Bool("quick", false, "sizes for trying a change")
	shape := flag.String("shape", "", "claim cost of the shapes whose names begin like this only")
	huge := flag.Bool("huge", false, "claims at 1,000,000 rows too, and a history of 10,000,000")
	strict := flag.Bool("strict", false, "fail when a target is missed")
	flag.Usage = usage
	flag.Parse()
	chosen, err := choose(flag.Args())
	if err != nil {
		return err
	}
	size := scenario.Full
	switch {
	case *smoke:
		size = scenario.Smoke
	case *quick:
		size = scenario.Quick
	}
	size.Shape = *shape
	if *huge {
		size.Backlogs = append(size.Backlogs, 1_000_000)
		size.History = 10_000_000
	}
	out := report.New(os.Stdout)
	out.Unjudged = *smoke
	if err := measure(ctx, chosen, out, size); err != nil {
		return err
	}
	if missed := out.Summary(); missed > 0 && *strict {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

func measure(ctx context.Context, chosen []scenario.Scenario, out *report.Report, size scenario.Size) error {
	bed, err := testbed.Start(ctx)
	if err != nil {
		return err
	}
	defer bed.Close()
	facts, err := bed.Facts(ctx)
	if err != nil {
		return err
	}
	fmt.Println("# Benchmarks")
	out.Heading("Machine and versions")
	out.Table([]string{"what", "value"}, facts...)
	start := time.Now()
	env := scenario.Env{Bed: bed, Report: out, Size: size, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.0fs %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}}
	for _, s := range chosen {
		if err := s.Run(ctx, env); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// choose finds the named scenarios; no name means all.
func choose(names []string) ([]scenario.Scenario, error) {
	if len(names) == 0 {
		return scenario.All, nil
	}
	var chosen []scenario.Scenario
	for _, name := range names {
		i := slices.IndexFunc(scenario.All, func(s scenario.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q", name)
		}
		chosen = append(chosen, scenario.All[i])
	}
	return chosen, nil
}

func usage() {
	out := flag.CommandLine.Output()
	fmt.Fprintln(out, "usage: go run . [flags] [scenario ...]\n\nscenarios (default: all):")
	for _, s := range scenario.All {
		fmt.Fprintf(out, "  %-12s %s\n", s.Name, s.About)
	}
	fmt.Fprintln(out, "\nflags:")
	flag.PrintDefaults()
}
