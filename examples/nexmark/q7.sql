-- Finds the highest bids of every 10 seconds, by a join of bids with the highest price of each window.
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS price, window.end AS endtime
  FROM bid
  GROUP BY window(dateTime, '10 seconds')
) AS highest
ON b.price = highest.price
  AND b.dateTime BETWEEN highest.endtime - INTERVAL '10' SECOND AND highest.endtime
