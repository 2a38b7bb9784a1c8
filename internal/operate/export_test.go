package operate

// What no test's server can be made to show is tested on its own.
var (
	ServerFindings   = serverFindings
	SnapshotFindings = snapshotFindings
	VacuumFindings   = Examination.vacuumFindings
	Soften           = soften
)
