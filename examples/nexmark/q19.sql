-- Ranks the ten highest bids of each auction; of equal ones the first is before the others.
SELECT auction, bidder, price, channel, url, dateTime, extra, rank_number
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS rank_number
  FROM bid
) AS bids
WHERE rank_number <= 10
