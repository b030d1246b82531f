-- Finds sellers in Oregon, Idaho or California, in category 10. A seller matches whenever the auction arrives: the join
-- has no bound in time.
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
