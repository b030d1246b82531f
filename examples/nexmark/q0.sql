-- Forwards bids unchanged: the cost of a query that computes nothing.
SELECT auction, bidder, price, dateTime, extra
FROM bid
