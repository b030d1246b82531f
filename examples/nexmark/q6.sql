-- Averages the winning bids of each seller's last auctions: this one and the ten that were won before it. Of equal bids
-- the first one wins. The auction is selected too: it identifies a row when another bid wins.
SELECT
  id,
  seller,
  avg(price) OVER (PARTITION BY seller ORDER BY dateTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT
    a.id, a.seller, b.price, b.dateTime,
    row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) AS place
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
) AS winning
WHERE place <= 1
