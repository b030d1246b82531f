-- Counts the bids of each bidder in every 10 seconds. Nexmark has windows of processing time there, which Spark's SQL
-- cannot say and of which no two runs give the same: these are of event time.
SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY bidder, window(dateTime, '10 seconds')
