// Package outboxotel measures and traces package outbox with OpenTelemetry. It needs the API alone: what becomes of the figures
// is up to the SDK that the application sets up, and without one they cost next to nothing.
//
//	telemetry, err := outboxotel.New(outboxotel.Config{})
//	handlers.Use(telemetry.Middleware)
//	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{Observer: telemetry.Observer()})
//	stop, err := telemetry.ObserveBacklog(pool)
//
// Producers hand their trace on with [WithTrace]. The metrics, and an alert and a dashboard on them, stand in docs/monitoring.
package outboxotel
