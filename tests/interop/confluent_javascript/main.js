'use strict';

require('./records');
require('./groups');
require('./transactions');
require('./admin');
require('../javascript/harness').runAll();
