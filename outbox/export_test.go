package outbox

// For tests that hold the tables of translations against the schema.
var (
	ByConstraint = byConstraint
	ByState      = byState
	Translate    = translate
	ToResult     = toResult
)

// Started tells whether Run has begun, or Stop has made that impossible.
func (w *Worker) Started() bool { return w.state.Load() == started }
