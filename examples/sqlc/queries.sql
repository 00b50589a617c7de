-- name: AddReservation :exec
insert into reservations (order_id, sku, quantity)
values ($1, $2, $3);

-- name: TakeFromStock :execrows
update stock
set on_hand = on_hand - sqlc.arg(quantity)
where sku = sqlc.arg(sku) and on_hand >= sqlc.arg(quantity);

-- name: OnHand :one
select on_hand
from stock
where sku = $1;

-- name: Reservations :many
select *
from reservations
order by id;
