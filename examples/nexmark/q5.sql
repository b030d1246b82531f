-- Finds the auctions with the most bids in the last 10 seconds, every 2 seconds. Sliding windows are Spark's
-- `window(time, size, slide)`.
WITH counted AS (
  SELECT window, auction, count(*) AS num
  FROM bid
  GROUP BY window(dateTime, '10 seconds', '2 seconds'), auction
), hottest AS (
  SELECT window, max(num) AS num
  FROM counted
  GROUP BY window
)
SELECT c.auction, c.num, c.window.start AS starttime, c.window.end AS endtime
FROM counted AS c
JOIN hottest AS h ON c.window = h.window AND c.num >= h.num
