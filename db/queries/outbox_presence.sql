-- name: OutboxAppear :one
-- OutboxAppear ties a worker to the session it is called on; false while an older session still stands for it.
SELECT public.outbox_appear(p_holder => @holder::uuid, p_event_types => @event_types::text[], p_claimed => @claimed::boolean)::boolean AS appeared;

-- name: OutboxHeartbeat :one
-- OutboxHeartbeat says that a worker lives; false when it has been declared dead.
SELECT public.outbox_heartbeat(p_holder => @holder::uuid)::boolean AS alive;

-- name: OutboxDisappear :exec
-- OutboxDisappear ends a worker's presence.
SELECT public.outbox_disappear(p_holder => @holder::uuid);

-- name: OutboxTakeOver :one
-- OutboxTakeOver gives the events of dead workers back and returns how many.
SELECT public.outbox_take_over(p_silent_seconds => @silent_seconds::double precision)::integer AS taken_over;

-- name: OutboxAnySuspect :one
-- OutboxAnySuspect reports whether an event of these types has to run alone.
SELECT public.outbox_any_suspect(p_event_types => @event_types::text[])::boolean AS suspect;

-- name: OutboxAnyReady :one
-- OutboxAnyReady reports whether an event of these types is due and filed as free to go.
SELECT public.outbox_any_ready(p_event_types => @event_types::text[])::boolean AS ready;
