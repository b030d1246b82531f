-- Passes bids on as they are: what remains of a query when it computes nothing.
SELECT auction, bidder, price, dateTime, extra
FROM bid
