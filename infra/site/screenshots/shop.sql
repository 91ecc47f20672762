create table orders (number bigint primary key, cents bigint not null, stage text);
