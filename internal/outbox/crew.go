package outbox

// crew runs handlers on goroutines that stay for the next one: handlers tend to need more stack than a goroutine starts
// with, and growing it for every event costs more than the rest of the loop.
type crew struct {
	jobs chan func()
	done chan struct{}
}

func newCrew() *crew { return &crew{jobs: make(chan func()), done: make(chan struct{})} }

// run hands the job to a member that is free, or else to a new one. There are never more than had jobs at once, but for
// those that were just getting free.
func (c *crew) run(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.serve(job)
	}
}

// serve ends with the crew, or with a job that ends its goroutine.
func (c *crew) serve(job func()) {
	for {
		job()
		select {
		case job = <-c.jobs:
		case <-c.done:
			return
		}
	}
}

// dismiss lets the members go that are free, and the others once they are.
func (c *crew) dismiss() { close(c.done) }
