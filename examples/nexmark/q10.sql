-- Gives each bid the day and the minute by which files of a log are partitioned. The files are those of the sink that
-- it goes to, partitioned by `dt` and `hm`.
SELECT
  auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM bid
