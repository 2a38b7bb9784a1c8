-- name: WebhookInboxRecord :one
-- WebhookInboxRecord is false if the message had been recorded before. It waits for whoever is just recording it.
SELECT public.webhook_inbox_record(p_source => @source::text, p_key => @key::text)::boolean AS recorded;

-- name: WebhookInboxPrune :one
-- WebhookInboxPrune deletes old messages of a source and returns how many.
SELECT public.webhook_inbox_prune(
  p_source => @source::text,
  p_keep_seconds => @keep_seconds::double precision,
  p_limit => @at_most::integer)::integer AS deleted;
