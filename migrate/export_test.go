package migrate

import "io/fs"

// WithFiles applies other files than pgrail's.
func WithFiles(files fs.FS) Option { return func(c *config) { c.files = files } }
