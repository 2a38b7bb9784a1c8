-- One transaction, so that of several instances that start at once one creates and the others wait.
BEGIN;
SELECT pg_advisory_xact_lock(5446, 1);
CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.customers (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  email text NOT NULL,
  city text NOT NULL
);

CREATE TABLE IF NOT EXISTS shop.orders (
  id uuid PRIMARY KEY,
  customer_id uuid NOT NULL,
  total_cents bigint NOT NULL,
  status text NOT NULL CHECK (status IN ('placed', 'paid', 'shipped', 'cancelled'))
);

CREATE TABLE IF NOT EXISTS shop.invoices (
  id uuid PRIMARY KEY,
  order_id uuid NOT NULL,
  cents bigint NOT NULL,
  settled boolean NOT NULL DEFAULT false
);

-- What the handler of invoice.settled writes: money counted twice would show here.
CREATE TABLE IF NOT EXISTS shop.takings (
  method text PRIMARY KEY,
  invoices bigint NOT NULL,
  cents bigint NOT NULL
);

-- Who may sign in. pgrail knows the principal; what it is called and how it proves that is the shop's own affair.
CREATE TABLE IF NOT EXISTS shop.staff (
  email text PRIMARY KEY,
  password_hash bytea NOT NULL,
  principal_id uuid NOT NULL UNIQUE
);
COMMIT;
