package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// The functions of the contract: names, arguments in their order, types, defaults and
// return types.
func TestSignatures(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	want := map[string]string{
		"outbox_claim_batch": "p_event_types text[], p_known_event_types text[] DEFAULT '{}'::text[], p_batch_size integer DEFAULT 25, " +
			"p_visibility_seconds integer DEFAULT 300, p_max_attempts integer DEFAULT 8 -> SETOF outbox_events",
		"outbox_mark_processed": "p_event_id uuid, p_claim_token text, p_metadata jsonb DEFAULT '{}'::jsonb -> boolean",
		"outbox_mark_failed": "p_event_id uuid, p_claim_token text, p_error text, p_outcome text DEFAULT 'retry'::text, " +
			"p_base_delay_seconds integer DEFAULT 60, p_max_delay_seconds integer DEFAULT 3600, p_max_attempts integer DEFAULT 8, " +
			"p_snooze_seconds integer DEFAULT 300 -> text",
		"outbox_release_unprocessed": "p_event_ids uuid[], p_claim_tokens text[], p_delay_seconds integer DEFAULT 0 -> integer",
	}
	for name, signature := range want {
		got := column[string](r, `select pg_get_function_arguments(p.oid) || ' -> ' || pg_get_function_result(p.oid) from pg_proc p
			where p.pronamespace = 'public'::regnamespace and p.proname = $1`, name)
		if diff := cmp.Diff([]string{signature}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each function called with every argument named, and with all that have a default
// left out.
func TestSignaturesCalls(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	none := uuid.Nil
	for name, call := range map[string]struct {
		sql  string
		want any
	}{
		"claim_batch named": {`select count(*)::text from public.outbox_claim_batch(p_max_attempts => 3, p_visibility_seconds => 600, p_batch_size => 5,
			p_known_event_types => array['b'], p_event_types => array['a'])`, "0"},
		"claim_batch omitted":    {`select count(*)::text from public.outbox_claim_batch(array['a'])`, "0"},
		"mark_processed named":   {`select public.outbox_mark_processed(p_metadata => '{}', p_claim_token => 't', p_event_id => '` + none.String() + `')::text`, "false"},
		"mark_processed omitted": {`select public.outbox_mark_processed('` + none.String() + `', 't')::text`, "false"},
		"mark_failed named": {`select public.outbox_mark_failed(p_event_id => '` + none.String() + `', p_claim_token => 't', p_error => 'e', p_outcome => 'snooze',
			p_base_delay_seconds => 5, p_max_delay_seconds => 6, p_max_attempts => 7, p_snooze_seconds => 60)`, "missed"},
		"mark_failed omitted": {`select public.outbox_mark_failed('` + none.String() + `', 't', 'e')`, "missed"},
		"release named": {`select public.outbox_release_unprocessed(p_delay_seconds => 1, p_claim_tokens => array['t'],
			p_event_ids => array['` + none.String() + `']::uuid[])::text`, "0"},
		"release omitted": {`select public.outbox_release_unprocessed(array['` + none.String() + `']::uuid[], array['t'])::text`, "0"},
	} {
		if got := value[string](r, call.sql); got != call.want {
			t.Errorf("%s: got %s, want %s", name, got, call.want)
		}
	}
}

// The exact error texts and SQLSTATEs of the contract, and those of our additions.
func TestSignaturesErrors(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for call, want := range map[string]string{
		`outbox_claim_batch(null)`:                                              "22023 outbox_claim_allowlist_required",
		`outbox_claim_batch('{}')`:                                              "22023 outbox_claim_allowlist_required",
		`outbox_claim_batch(array[]::text[], array['a'])`:                       "22023 outbox_claim_allowlist_required",
		`outbox_mark_failed(null, null, null, 'retried')`:                       "22023 outbox_mark_failed_invalid_outcome",
		`outbox_mark_failed(null, null, null, '')`:                              "22023 outbox_mark_failed_invalid_outcome",
		`outbox_mark_failed(null, null, null, 'Retry')`:                         "22023 outbox_mark_failed_invalid_outcome",
		`outbox_mark_failed(null, null, null, null)`:                            "22023 outbox_mark_failed_invalid_outcome",
		`outbox_release_unprocessed(null, '{}')`:                                "22023 outbox_release_invalid_input",
		`outbox_release_unprocessed('{}', null)`:                                "22023 outbox_release_invalid_input",
		`outbox_release_unprocessed(null, null)`:                                "22023 outbox_release_invalid_input",
		`outbox_release_unprocessed(array[gen_random_uuid()], '{}')`:            "22023 outbox_release_invalid_input",
		`outbox_release_unprocessed('{}', array['t'], 5)`:                       "22023 outbox_release_invalid_input",
		`outbox_mark_processed(null, null, 'null')`:                             "22023 outbox_mark_processed_invalid_metadata",
		`outbox_mark_processed(null, null, '[]')`:                               "22023 outbox_mark_processed_invalid_metadata",
		`outbox_mark_processed(null, null, '"x"')`:                              "22023 outbox_mark_processed_invalid_metadata",
		`outbox_mark_processed_many('{}', null)`:                                "22023 outbox_mark_processed_invalid_input",
		`outbox_mark_processed_many('{}', array['t'])`:                          "22023 outbox_mark_processed_invalid_input",
		`outbox_mark_processed_many('{}', '{}', '1')`:                           "22023 outbox_mark_processed_invalid_metadata",
		`outbox_mark_failed_many('{}', '{}', '{}', null)`:                       "22023 outbox_mark_failed_invalid_outcome",
		`outbox_mark_failed_many('{}', '{}', '{}', array['x'])`:                 "22023 outbox_mark_failed_invalid_outcome",
		`outbox_mark_failed_many('{}', '{}', '{}', array['retry'])`:             "22023 outbox_mark_failed_invalid_input",
		`outbox_mark_failed_many('{}', '{}', array['e'], '{}')`:                 "22023 outbox_mark_failed_invalid_input",
		`outbox_mark_failed_many('{}', array['t'], '{}', '{}')`:                 "22023 outbox_mark_failed_invalid_input",
		`outbox_extend_leases('{}', null)`:                                      "22023 outbox_extend_invalid_input",
		`outbox_enqueue(array['a'], '{}', '{}', '{}', '{}')`:                    "22023 outbox_enqueue_invalid_input",
		`outbox_redrive(null, 'me', 'why')`:                                     "22023 outbox_redrive_invalid_input",
		`outbox_redrive('{}', ' ', 'why')`:                                      "22023 outbox_redrive_invalid_input",
		`outbox_redrive('{}', 'me', null)`:                                      "22023 outbox_redrive_invalid_input",
		`outbox_redrive(array_fill(gen_random_uuid(), array[1001]), 'me', 'w')`: "22023 outbox_redrive_invalid_input",
		`outbox_prune(null)`:                                                    "22023 outbox_prune_invalid_input",
		`outbox_prune(-1)`:                                                      "22023 outbox_prune_invalid_input",
		`outbox_prune('nan')`:                                                   "22023 outbox_prune_invalid_input",
		`outbox_prune('infinity')`:                                              "22023 outbox_prune_invalid_input",
		`outbox_prune(1, 1, -1)`:                                                "22023 outbox_prune_invalid_input",
	} {
		refused := r.fails(`select public.` + call)
		if got := refused.Code + " " + refused.Message; got != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
}
