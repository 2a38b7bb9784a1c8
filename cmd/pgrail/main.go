// Command pgrail operates the rail in a database: it creates and upgrades the schema, shows what moves and what does not
// and why, and mends it.
//
//	export DATABASE_URL=postgres://user:password@host:5432/database
//	pgrail status
//	pgrail --help
//
// Results go to standard output, as tables or with --json as JSON; messages and progress go to standard error. No message
// holds a connection string. The exit status tells what happened:
//
//	0    done
//	1    failed
//	2    wrong use: an unknown command, a missing flag, a value out of range
//	3    there is no such event, aggregate or entry
//	4    refused: it changes much or destroys, and --yes is not given
//	5    findings: not all was done, or not all is as it should be
//	6    no connection to the database
//	7    the database is not migrated, or not to this version
//	8    the role lacks a right
//	130  interrupted
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/openlup/pgrail/migrate"
)

type cli struct {
	Database string `env:"DATABASE_URL" placeholder:"URL" help:"Connection string of the database: a URL or key=value pairs."`
	JSON     bool   `name:"json" help:"Print JSON instead of tables."`

	Migrate    migrateCmd    `cmd:"" help:"Create and upgrade the schema, and compare it with the released one."`
	Status     statusCmd     `cmd:"" help:"Show what waits, per event type, and which aggregates stand still."`
	Tail       tailCmd       `cmd:"" help:"Follow events as they move."`
	Show       showCmd       `cmd:"" help:"Show an event with its payload."`
	Explain    explainCmd    `cmd:"" help:"Tell why an event or an aggregate does not move, and what to do."`
	Redrive    redriveCmd    `cmd:"" help:"Reopen discarded events, in their old place of the order."`
	Discard    discardCmd    `cmd:"" help:"Give up events that wait."`
	Resume     resumeCmd     `cmd:"" help:"Let a halted aggregate move again, past the event that stopped it."`
	Dormant    dormantCmd    `cmd:"" help:"Event types that nobody handles yet and that hold nothing up."`
	Policy     policyCmd     `cmd:"" help:"Limits that belong to an event type, whoever claims it."`
	Prune      pruneCmd      `cmd:"" help:"Delete old events that are processed or discarded, and records of old webhooks."`
	Grant      grantCmd      `cmd:"" help:"Give a role the rights of a producer, a worker, an operator, or an application with admins or webhooks."`
	Doctor     doctorCmd     `cmd:"" help:"Examine the database, and tell what to do about each finding."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a script that completes pgrail's commands in a shell."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Print what can stand at the end of a command line."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	parser := kong.Must(&c, kong.Name("pgrail"), kong.Writers(out, errOut), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"migrations_table": migrate.DefaultTable},
		kong.Description("Operate the rail: what moves, what does not and why.\n\nExit status: 0 done, 1 failed, 2 wrong use, 3 not found, "+
			"4 refused without --yes, 5 findings, 6 no connection, 7 not migrated, 8 no right, 130 interrupted."))
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(errOut, "pgrail: %s\nRun: %s --help\n", redact(err.Error()), reached(err))
		return exitUse
	}
	a := &app{ctx: ctx, out: out, errOut: errOut, database: c.Database, json: c.JSON, model: parser.Model}
	err = parsed.Run(a)
	if err == nil {
		return 0
	}
	text, code := describe(ctx, err)
	fmt.Fprintln(errOut, "pgrail: "+text)
	return code
}

// reached is the command that a wrong command line has come to.
func reached(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "pgrail"
}

// credentials are what a connection string may carry; people put one where an argument was expected.
var credentials = regexp.MustCompile(`(?i)(postgres(?:ql)?://)\S*|(password\s*=\s*)('[^']*'|\S+)`)

func redact(text string) string { return credentials.ReplaceAllString(text, "$1$2...") }
