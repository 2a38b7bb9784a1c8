package outbox

import "sync"

// crew runs jobs on goroutines that stay for the next one, in the order in which the jobs came. A member that takes a job
// while others wait first calls one more member, who does the same. So jobs that block all run at once, while jobs that
// return at once are done by few members, who need no change of goroutine between them and whose stacks have grown.
type crew struct {
	mu   sync.Mutex
	more *sync.Cond
	jobs []func()
	// free members wait for a call; coming is set from a call until the called one takes a job.
	free      int
	coming    bool
	dismissed bool
}

func newCrew() *crew {
	c := &crew{}
	c.more = sync.NewCond(&c.mu)
	return c
}

// run leaves the job to the next member. There are never more members than there were jobs at once, but for one.
func (c *crew) run(job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, job)
	c.call()
}

// call has one more member come, unless one is coming already or nothing is left to do.
func (c *crew) call() {
	switch {
	case c.coming || len(c.jobs) == 0:
	case c.free > 0:
		c.coming = true
		c.free--
		c.more.Signal()
	default:
		c.coming = true
		go c.serve()
	}
}

// serve ends with the crew, or with a job that ends its goroutine.
func (c *crew) serve() {
	for job := c.next(true); job != nil; job = c.next(false) {
		job()
	}
}

// next takes the oldest job and waits for one where there is none; nil means that the crew is dismissed.
func (c *crew) next(called bool) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if called {
			c.coming = false
		}
		if len(c.jobs) > 0 {
			break
		}
		if c.dismissed {
			return nil
		}
		c.free++
		c.more.Wait()
		called = true
	}
	job := c.jobs[0]
	c.jobs[0] = nil
	c.jobs = c.jobs[1:]
	c.call()
	return job
}

// dismiss lets the members go once there is nothing left to do.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissed = true
	c.more.Broadcast()
}
