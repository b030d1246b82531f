-- Finds the bids for every 123rd auction.
SELECT auction, price
FROM bid
WHERE mod(auction, 123) = 0
