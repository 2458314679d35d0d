CREATE TABLE IF NOT EXISTS shipment (
  number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key         text NOT NULL UNIQUE, -- whom it was asked for by
  destination text NOT NULL
);
