-- The contract's points 1 to 3 as plain SQL over status and times, without lanes: what a claim of these types is to
-- discard and what it is to hand out, compared with what outbox_claim_batch does in random states. Raises where they differ.
create procedure public.claim_model(p_rounds integer) language plpgsql as $$
declare
  v_claimed text[]; v_known text[]; v_limit integer; v_max integer; v_rows integer; v_at timestamptz; v_next timestamptz;
  v_due uuid[]; v_discard uuid[]; v_hand_out uuid[]; v_before uuid[]; v_handed_out uuid[]; v_discarded uuid[];
begin
  for v_round in 1..p_rounds loop
    delete from public.outbox_events;
    delete from public.outbox_dormant_event_types;
    v_rows := (array[10, 30, 80, 200])[1 + floor(random() * 4)::integer];
    insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, attempts, crashes)
    select date_trunc('second', clock_timestamp()) - (random() * 20)::integer * interval '1 minute',
      clock_timestamp() + (random() - 0.8) * interval '1 hour', 'order', md5((random() * v_rows / 3)::integer::text)::uuid,
      chr(97 + (random() * 3)::integer), gen_random_uuid(), '{}',
      (array['pending', 'failed', 'processing', 'processing', 'processed', 'discarded'])[1 + floor(random() * 6)::integer],
      (random() * 5)::integer, case when random() < 0.1 then 3 else 0 end
    from generate_series(1, v_rows);
    insert into public.outbox_dormant_event_types select chr(97 + (random() * 3)::integer), 'x', 'y' where random() < 0.3;
    -- A life before: small and large claims of two consumers, and hands.
    for v_move in 1..(random() * 3)::integer loop
      perform public.outbox_claim_events(array['a', 'b'], '{c}', 1 + (random() * 20)::integer, 300, 20, p_many => (array[1, 200])[1 + floor(random() * 2)::integer]);
      perform public.outbox_claim_events(array['c', 'd'], '{}', 1 + (random() * 20)::integer, 300, 20, p_many => (array[1, 200])[1 + floor(random() * 2)::integer]);
      update public.outbox_events set available_at = clock_timestamp() - random() * interval '1 minute' where status = 'processing' and random() < 0.5;
      update public.outbox_events set available_at = clock_timestamp() + interval '1 hour' where random() < 0.1;
      update public.outbox_events set attempts = (random() * 6)::integer where random() < 0.2;
      update public.outbox_events set status = 'failed' where status = 'processing' and random() < 0.2;
      update public.outbox_events set status = 'pending' where status = 'discarded' and random() < 0.1;
    end loop;
    -- Times that came without anybody's hand.
    set session_replication_role = replica;
    update public.outbox_events set available_at = clock_timestamp() - random() * interval '1 minute' where lane in ('timed', 'held') and random() < 0.3;
    set session_replication_role = origin;

    v_claimed := (array['{a}', '{a,b}', '{a,b,c,d}', '{c}', '{b,d}'])[1 + floor(random() * 5)::integer]::text[];
    v_known := (array['{}', '{b}', '{c,d}', '{a}'])[1 + floor(random() * 4)::integer]::text[];
    v_limit := (array[1, 3, 10, 100])[1 + floor(random() * 4)::integer];
    v_max := 1 + floor(random() * 5)::integer;
    v_at := clock_timestamp();
    v_due := array(select e.id from public.outbox_events e
      where e.status in ('pending', 'failed', 'processing') and e.available_at <= v_at and e.event_type = any (v_claimed));
    v_next := (select min(e.available_at) from public.outbox_events e where e.available_at > v_at);
    v_before := array(select e.id from public.outbox_events e where e.status = 'discarded');
    v_discard := array(select e.id from public.outbox_events e
      where e.id = any (v_due) and e.attempts >= v_max order by e.created_at, e.id limit 100);
    v_hand_out := array(select e.id from public.outbox_events e
      where e.id = any (v_due) and e.attempts < v_max and not exists (
        select from public.outbox_events o
        where o.status in ('pending', 'failed', 'processing') and o.id <> all (v_discard)
          and (o.aggregate_type, o.aggregate_id) = (e.aggregate_type, e.aggregate_id) and (o.created_at, o.id) < (e.created_at, e.id)
          and (o.event_type = any (v_claimed) or o.event_type <> all (v_known)
            and not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type)))
      order by e.created_at, e.id limit v_limit);

    v_handed_out := array(select c.id from public.outbox_claim_batch(v_claimed, v_known, v_limit, 300, v_max) c);
    v_discarded := array(select e.id from public.outbox_events e
      where e.status = 'discarded' and e.id <> all (v_before) order by e.created_at, e.id);
    -- What became due in between is no difference.
    if (v_hand_out, v_discard) is distinct from (v_handed_out, v_discarded)
      and coalesce(v_next > clock_timestamp(), true) then
      raise exception 'types %, known %, limit %, attempts %: handed out %, want %; discarded %, want %',
        v_claimed, v_known, v_limit, v_max, v_handed_out, v_hand_out, v_discarded, v_discard;
    end if;
    commit;
  end loop;
end $$;
