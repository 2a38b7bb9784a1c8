package server

// NewestFirst is what Installations does with what it finds.
var NewestFirst = newestFirst
