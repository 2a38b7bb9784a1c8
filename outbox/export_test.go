package outbox

// For tests that hold the tables of translations against the schema.
var (
	ByConstraint = byConstraint
	ByState      = byState
	Translate    = translate
	ToResult     = toResult
)
