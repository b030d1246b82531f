-- Finds persons who registered and opened an auction in the same 10 seconds, by a join of two windowed streams.
SELECT p.id, p.name, p.window.start AS starttime
FROM (
  SELECT window, id, name
  FROM person
  GROUP BY window(dateTime, '10 seconds'), id, name
) AS p
JOIN (
  SELECT window, seller
  FROM auction
  GROUP BY window(dateTime, '10 seconds'), seller
) AS a
ON p.id = a.seller AND p.window = a.window
