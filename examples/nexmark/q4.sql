-- Averages, for each category, the winning bids of its auctions: the highest while the auction lasted. The average is a
-- double, as in Spark for whole numbers.
SELECT category, avg(final) AS average
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id, a.category
) AS winning
GROUP BY category
