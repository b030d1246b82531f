-- Keeps the last bid of each bidder for each auction.
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place
  FROM bid
) AS bids
WHERE place <= 1
